"""The Spark Structured Streaming job: the only place that imports pyspark. It never decides."""
