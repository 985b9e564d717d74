"""Which records are judged in a thread, whatever way their request came."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from tests.unit.server.test_shell import Server, create_topic, offset_of, with_server

from tidelog.wire.batch_builder import BatchBuilder
from tidelog.wire.messages import create_topics, produce


def test_what_a_topic_has_compressed_anew_is_judged_in_a_thread(tmp_path: Path) -> None:
    """A Produce of one partition, too: its short way would compress inside a step."""

    async def test(server: Server) -> None:
        client = await server.client()
        config = create_topics.CreatableTopicConfig(name="compression.type", value="gzip")
        (topic,) = create_topic("t").topics
        await client.ask(
            create_topics.CreateTopicsRequest(topics=(topic.replace(configs=(config,)),)), 7
        )
        judged: list[Any] = []
        judge = server.shell._judge
        server.shell._judge = lambda *request: (judged.append(request), judge(*request))  # type: ignore[method-assign,assignment,func-returns-value]
        builder = BatchBuilder()
        builder.append(None, random.Random(1).randbytes(500_000), timestamp=1_700_000_000_000)
        data = produce.PartitionProduceData(index=0, records=bytes(builder.build()))
        message = produce.ProduceRequest(
            acks=-1,
            timeout_ms=1000,
            topic_data=(produce.TopicProduceData(name="t", partition_data=(data,)),),
        )
        assert offset_of(await client.ask(message, 9)) == 0
        assert len(judged) == 1

    with_server(tmp_path, test)
