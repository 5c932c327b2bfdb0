"""The data source ``mqbroker``, which Spark makes for a query with ``format("mqbroker")``."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from mqspark.columns import schema_ddl
from mqspark.options import Options, Use


class MqbrokerDataSource(DataSource):
    """Queues and topics of mqbroker and Apache ActiveMQ Artemis as tables and streams.

    The modules of readers and writers are imported when they are asked for: a task that writes needs none that reads.
    """

    _copied = False

    @classmethod
    def name(cls) -> str:
        return "mqbroker"

    def schema(self) -> str:
        """The columns of the options ``columns``, ``bodyFormat`` and ``bodySchema``; asked for only when the query brings no schema."""
        options = Options.parse(self.options, Use.SOURCE)
        return schema_ddl(options.columns, options.body_format, options.body_schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        from mqspark.reading.batch_reader import BatchReader

        return BatchReader(Options.parse(self.options, Use.READ), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from mqspark.reading.stream_reader import StreamReader

        return StreamReader(Options.parse(self.options, Use.READ_STREAM), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from mqspark.writing.sink import BatchWriter

        return BatchWriter(Options.parse(self.options, Use.WRITE), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from mqspark.writing.sink import StreamWriter

        options, checkpoint = Options.parse(self.options, Use.WRITE_STREAM), self.options.get("checkpointLocation")
        return StreamWriter(options, schema, overwrite, committing=self._copied, checkpoint=checkpoint)

    def __getstate__(self) -> dict[str, object]:
        # Spark asks a new data source for the writer of a batch, and a copy of one for the writer that commits it.
        return self.__dict__ | {"_copied": True}
