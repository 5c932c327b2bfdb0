"""Found by Spark, which imports every module whose name begins with ``pyspark_``: makes ``format("mqbroker-journal")`` known."""

from mqspark.journal.journal import JournalDataSource as DefaultSource

__all__ = ["DefaultSource"]
