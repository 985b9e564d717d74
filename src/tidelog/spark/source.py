"""The format "tidelog" as Spark knows it. It imports little: Spark looks at every data source that
is installed as soon as one is used, and only what a query does is loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType


class TidelogDataSource(DataSource):
    """Topics of Tidelog's or any Kafka broker; with `path`, of the files of one."""

    @classmethod
    def name(cls) -> str:
        return "tidelog"

    def schema(self) -> str:
        """Without options, the columns of Spark's Kafka source."""
        from tidelog.spark.schema import spark_schema
        from tidelog.spark.source_options import columns_of

        return spark_schema(columns_of(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        if "path" in self.options:
            from tidelog.spark.scan import scan_reader

            return scan_reader(self.options, schema)
        from tidelog.spark.batch_reader import batch_reader

        return batch_reader(self.options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from tidelog.spark.stream_reader import stream_reader

        return stream_reader(self.options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from tidelog.spark.sink import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from tidelog.spark.sink import stream_writer

        return stream_writer(self.options, schema, overwrite)
