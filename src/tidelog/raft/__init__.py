"""The metadata quorum (KRaft), as a state machine without sockets, clocks or threads.

How a node uses it:

    raft = Raft(
        raft_config(config), node_id, directory_id, cluster_id,
        log,                       # of __cluster_metadata-0, loaded; snapshots and quorum-state
                                   # lie in its directory
        rng, channel, flush, listener,
    )
    raft.start(now)                # before the first request; a quorum of one leads afterwards,
                                   # if `flush` calls back at once
    raft.tick(now)                 # when raft.next_deadline_ms has come; it may only get earlier
                                   # in calls of raft's own methods and callbacks, so look again
                                   # after each step

What it is given (`types.py`): `Channel` asks other nodes and probes their listeners, `flush`
makes work items durable outside the step and calls back in a later one, `RaftListener` is told
what changed. Every call into raft ends with all that it wants sent handed to the channel.

Requests of the controller listener: `raft.vote`, `begin_quorum_epoch`, `end_quorum_epoch`,
`fetch`, `fetch_snapshot`, `add_voter`, `remove_voter`, `update_voter`, `describe_quorum`, each
`(request, now, answer)`. `answer` is called once, now or later: after an fsync, a commit, or a
long poll. Answers to Fetch and FetchSnapshot carry their records as a `FileSlice`. Nothing that
tells of a vote or a role leaves before quorum-state is durable.

What it tells: `leader_id` (-1 if unknown), `leader_address`, `epoch`, `is_leader`, `is_voter`,
`high_watermark`, `voters`, `role_name`. The leader appends with `raft.append(batch, now)`; a
stop begins with `raft.resign(now)`, which hands over to the voter that has most.

On top of it `runtime/metadata.py` keeps the images: committed on every node, latest on the active
controller. `snapshot_writer.py` takes snapshots of them. Whoever listens begins with
`raft.snapshots.latest`, if there is one; `snapshot_loaded` tells of later ones.
"""
