"""Records for tests: one cluster's life with every kind of record in it."""

from __future__ import annotations

from tidelog.metadata.records.brokers import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ControllerEndpoint,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from tidelog.metadata.records.cluster import (
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    ProducerIdsRecord,
)
from tidelog.metadata.records.security import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    EntityData,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from tidelog.metadata.records.topics import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tidelog.types import Uuid
from tidelog.wire.declare import Message


def uuid(number: int) -> Uuid:
    """Not a reserved one."""
    return Uuid(b"\x11" + number.to_bytes(15, "big"))


def broker(broker_id: int, *, epoch: int | None = None, **changes: object) -> RegisterBrokerRecord:
    values: dict[str, object] = {
        "broker_id": broker_id,
        "incarnation_id": uuid(1000 + broker_id),
        "broker_epoch": broker_id * 10 if epoch is None else epoch,
        "end_points": (
            BrokerEndpoint(
                name="PLAINTEXT", host="127.0.0.1", port=9000 + broker_id, security_protocol=0
            ),
        ),
        "features": (
            BrokerFeature(
                name="metadata.version", min_supported_version=7, max_supported_version=30
            ),
        ),
        "rack": None,
        "fenced": False,
        "log_dirs": (uuid(2000 + broker_id),),
        **changes,
    }
    return RegisterBrokerRecord(**values)  # type: ignore[arg-type]


def partition(topic: int, number: int, replicas: tuple[int, ...], **changes: object) -> Message:
    values: dict[str, object] = {
        "partition_id": number,
        "topic_id": uuid(topic),
        "replicas": replicas,
        "isr": replicas,
        "removing_replicas": (),
        "adding_replicas": (),
        "leader": replicas[0],
        "leader_epoch": 0,
        "partition_epoch": 0,
        "directories": tuple(uuid(2000 + replica) for replica in replicas),
        **changes,
    }
    return PartitionRecord(**values)  # type: ignore[arg-type]


def change(topic: int, number: int, **changes: object) -> Message:
    return PartitionChangeRecord(
        partition_id=number,
        topic_id=uuid(topic),
        **changes,  # type: ignore[arg-type]
    )


def config(resource: int, resource_name: str, name: str, value: str | None) -> Message:
    return ConfigRecord(resource_type=resource, resource_name=resource_name, name=name, value=value)


def quota(key: str, value: float, *, remove: bool = False, name: str | None = "cl") -> Message:
    entity = (
        EntityData(entity_type="user", entity_name=None),
        EntityData(entity_type="client-id", entity_name=name),
    )
    return ClientQuotaRecord(entity=entity, key=key, value=value, remove=remove)


def acl(number: int) -> Message:
    return AccessControlEntryRecord(
        id=uuid(number),
        resource_type=2,
        resource_name="a",
        pattern_type=3,
        principal="User:me",
        host="*",
        operation=3,
        permission_type=3,
    )


def scram(name: str, mechanism: int) -> Message:
    return UserScramCredentialRecord(
        name=name,
        mechanism=mechanism,
        salt=b"s",
        stored_key=b"k",
        server_key=b"v",
        iterations=4096,
    )


def token(name: str) -> Message:
    return DelegationTokenRecord(
        owner="User:a",
        requester="User:a",
        renewers=("User:b",),
        issue_timestamp=1,
        max_timestamp=2,
        expiration_timestamp=3,
        token_id=name,
    )


def features() -> list[Message]:
    levels = {"metadata.version": 30, "eligible.leader.replicas.version": 1, "group.version": 1}
    return [
        FeatureLevelRecord(name=name, feature_level=level)
        for name, level in {**levels, "transaction.version": 2}.items()
    ]


def every_kind_of_record() -> list[list[Message]]:
    """Groups; each leaves a cluster that can be looked at."""
    return [
        features(),
        [broker(number, rack=f"r{number}") for number in (1, 2, 3)] + [NoOpRecord()],
        [
            RegisterControllerRecord(
                controller_id=9,
                incarnation_id=uuid(9),
                zk_migration_ready=False,
                end_points=(ControllerEndpoint(name="C", host="h", port=1, security_protocol=0),),
                features=(),
            )
        ],
        [
            TopicRecord(name="a", topic_id=uuid(1)),
            config(2, "a", "retention.ms", "5"),
            *(partition(1, number, (1, 2, 3)) for number in range(3)),
            TopicRecord(name="b", topic_id=uuid(2)),
            partition(2, 0, (2, 1)),
        ],
        [change(1, 0, isr=(2, 3), leader=2), change(1, 1, isr=(1, 3)), change(1, 2, leader=-1)],
        [change(1, 0, isr=(2,), eligible_leader_replicas=(1, 3), last_known_elr=(1,))],
        [change(1, 0, leader_recovery_state=1), change(1, 2, isr=(3,), leader=3)],
        [
            change(
                2,
                0,
                replicas=(3, 1, 2),
                adding_replicas=(3,),
                removing_replicas=(2,),
                directories=(uuid(2003), uuid(2001), uuid(2002)),
            )
        ],
        [
            change(
                2,
                0,
                replicas=(3, 1),
                adding_replicas=(),
                removing_replicas=(),
                leader=3,
                directories=(uuid(2003), uuid(2001)),
            )
        ],
        [ClearElrRecord(topic_name="a"), config(2, "a", "min.insync.replicas", "2")],
        [change(1, 1, eligible_leader_replicas=(2,)), ClearElrRecord(topic_name="")],
        [FenceBrokerRecord(id=1, epoch=10), UnfenceBrokerRecord(id=2, epoch=20)],
        [
            BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, fenced=-1),
            BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=20, fenced=1),
            BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=30, in_controlled_shutdown=1),
            BrokerRegistrationChangeRecord(
                broker_id=1, broker_epoch=10, log_dirs=(uuid(7), uuid(8))
            ),
            BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=10, cordoned_log_dirs=()),
        ],
        [UnregisterBrokerRecord(broker_id=2, broker_epoch=20), broker(3, epoch=77, fenced=True)],
        [config(4, "", "log.retention.ms", "1"), config(4, "1", "log.retention.ms", "2")],
        [config(4, "1", "log.retention.ms", None), config(16, "m", "interval.ms", "3")],
        [FeatureLevelRecord(name="group.version", feature_level=0)],
        [ProducerIdsRecord(broker_id=1, broker_epoch=10, next_producer_id=3000)],
        [quota("producer_byte_rate", 1024.0), quota("consumer_byte_rate", 5.0)],
        [quota("producer_byte_rate", 7.0, name=None)],
        [quota("consumer_byte_rate", 0.0, remove=True)],
        [acl(50), acl(51), scram("alice", 1), scram("alice", 2), token("t1"), token("t2")],
        [
            RemoveAccessControlEntryRecord(id=uuid(50)),
            RemoveUserScramCredentialRecord(name="alice", mechanism=1),
            RemoveDelegationTokenRecord(token_id="t1"),
        ],
        [RemoveTopicRecord(topic_id=uuid(1)), TopicRecord(name="a", topic_id=uuid(3))],
    ]
