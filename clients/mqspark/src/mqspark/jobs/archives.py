"""Archives, which :mod:`mqspark.jobs.archive` writes and the other jobs read.

An archive is a folder of Parquet files, or a Delta table, partitioned by ``address`` and ``day``.  Its columns are those of the data source
``mqbroker`` and three more:

===============  ============  ==============================================================================================
``archived_at``  timestamp     when Spark planned the batch that brought the message here
``size``         long          bytes of the body
``day``          date          the day of ``timestamp`` in UTC, whatever the time zone of the session
===============  ============  ==============================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import click

from mqspark.errors import BadOptionError
from mqspark.jobs.status import JobError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

ARCHIVED_AT: Final = "archived_at"
SIZE: Final = "size"
DAY: Final = "day"
ADDRESS: Final = "address"
ADDED: Final = (ARCHIVED_AT, SIZE, DAY)
NEEDED: Final = (ADDRESS, "message_id", "queue", "node_id", "timestamp", *ADDED)
"""Without these columns a table is no archive."""

_INFERENCE = "spark.sql.sources.partitionColumnTypeInference.enabled"
_DAY_MS = 86_400_000


def open_archive(spark: SparkSession, path: str) -> DataFrame:
    """The archive in the folder ``path``, which may be anywhere that Spark can read.

    Raises :class:`mqspark.jobs.JobError` when nothing is there, or something else.
    """
    from pyspark.errors import AnalysisException

    from mqspark.jobs.folder import Folder

    # An address may look like a number or a date, and is to stay the text that it is.
    try:
        with setting(spark, _INFERENCE, "false"):
            frame = spark.read.format("delta" if Folder(spark, path).has("_delta_log") else "parquet").load(path)
    except AnalysisException as error:
        kind = error.getCondition() or ""
        if "PATH_NOT_FOUND" in kind:
            raise JobError(f"there is no archive at {path}") from None
        if "UNABLE_TO_INFER_SCHEMA" in kind:
            raise JobError(f"the archive at {path} holds nothing yet") from None
        raise
    missing = [name for name in NEEDED if name not in frame.columns]
    if missing:
        raise JobError(f"what is at {path} is not an archive of messages: it has no column {', '.join(missing)}")
    return frame.withColumn(DAY, frame[DAY].cast("date"))


def selected(frame: DataFrame, where: str | None, since: datetime | None, until: datetime | None) -> DataFrame:
    """The messages for which the SQL expression ``where`` holds and whose timestamp is in [``since``, ``until``).

    Files of other days in the archive are not opened.  Raises :class:`mqspark.errors.BadOptionError` for an expression that Spark does not
    understand.
    """
    from pyspark.errors import AnalysisException, ParseException
    from pyspark.sql import functions as f

    stamp = millis(frame, "timestamp")
    if since is not None:
        if DAY in frame.columns:
            frame = frame.where(f.col(DAY) >= f.lit(since.astimezone(UTC).date()))
        frame = frame.where(stamp >= f.lit(epoch_ms(since)))
    if until is not None:
        if DAY in frame.columns:
            frame = frame.where(f.col(DAY) <= f.lit(until.astimezone(UTC).date()))
        frame = frame.where(stamp < f.lit(epoch_ms(until)))
    if where:
        try:
            return frame.where(where)
        except (AnalysisException, ParseException) as error:
            reason = next(line for line in str(error).splitlines() if line.strip())
            raise BadOptionError(f"the condition '{where}' cannot be used: {reason}") from None
    return frame


def with_added_columns(frame: DataFrame, diverted: Sequence[str] = ()) -> DataFrame:
    """Rows of the data source with the columns of an archive.

    ``diverted``: queues whose messages are to have the address from which a divert has copied them, not that of the copy.
    """
    from pyspark.sql import functions as f

    if diverted:
        origin = f.when(f.col("queue").isin(*diverted), property_text(frame, "_AMQ_ORIG_ADDRESS"))
        frame = frame.withColumn(ADDRESS, f.coalesce(origin, f.col(ADDRESS)))
    days = f.floor(millis(frame, "timestamp") / _DAY_MS).cast("int")
    return frame.withColumns(
        {
            ARCHIVED_AT: f.current_timestamp(),
            SIZE: f.coalesce(f.octet_length("body"), f.lit(0)).cast("long"),
            DAY: f.date_add(f.lit("1970-01-01").cast("date"), days),
        }
    )


def millis(frame: DataFrame, name: str) -> Column:
    """A column of times as milliseconds since 1970."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import TimestampType

    return f.unix_millis(frame[name]) if isinstance(frame.schema[name].dataType, TimestampType) else frame[name].cast("long")


def property_text(frame: DataFrame, name: str) -> Column:
    """A property of the messages as text; null where a message has none of that name."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import MapType

    kind = frame.schema["properties"].dataType
    assert isinstance(kind, MapType)
    return _as_text(f.try_element_at("properties", f.lit(name)), kind.valueType)


def _as_text(value: Column, kind: DataType) -> Column:
    """The value of a property: the one of its fields that is not null."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import BinaryType, StructType, VariantType

    if isinstance(kind, VariantType):
        return f.try_variant_get(value, "$", "string")
    if isinstance(kind, StructType):
        fields = [value[field.name].cast("string") for field in kind if field.name != "type" and not isinstance(field.dataType, BinaryType)]
        return f.coalesce(*fields)
    return value.cast("string")


def parse_time(text: str) -> datetime:
    """``2026-11-21``, ``2026-11-21T08:30`` or with an offset; UTC without one.  Raises :class:`mqspark.errors.BadOptionError`."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise BadOptionError(
            f"'{text}' is not a time: expected for example 2026-11-21, 2026-11-21T08:30 or 2026-11-21T08:30:00+01:00"
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def where_option(columns: str) -> Callable[..., Any]:
    """The option ``--where`` of a command that chooses messages with :func:`selected`."""
    return click.option("--where", metavar="SQL", help=f"Only messages for which this expression over {columns} is true.")


def _time(context: click.Context, parameter: click.Parameter, text: str | None) -> datetime | None:
    return parse_time(text) if text else None


SENT_SINCE: Final = click.option(
    "--since",
    metavar="TIME",
    callback=_time,
    help="Only messages sent at or after this time, such as 2026-11-21 or 2026-11-21T08:30 (UTC).",
)
SENT_UNTIL: Final = click.option("--until", metavar="TIME", callback=_time, help="Only messages sent before this time.")


def epoch_ms(moment: datetime) -> int:
    """Milliseconds since 1970."""
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def moment_of(ms: int) -> datetime:
    """The time so many milliseconds after the beginning of 1970.

    Spark hands out times without a zone, in the zone of the machine; so times are taken from Spark as numbers.
    """
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """Give a setting of the session another value inside a ``with`` statement."""
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, str(before))
