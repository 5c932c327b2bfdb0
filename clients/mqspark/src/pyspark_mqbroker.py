"""Found by Spark, which imports every module whose name begins with ``pyspark_``: makes ``format("mqbroker")`` known."""

from mqspark.source import MqbrokerDataSource as DefaultSource

__all__ = ["DefaultSource"]
