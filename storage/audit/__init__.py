"""The audit of stores on Spark: snapshot, export, checks, report. Needs the extra `shardline[audit]`.

    snapshot   a consistent copy of a live store
    export     that copy as Parquet files with a manifest; no Spark
    export_dir the manifests and files of a folder of exports
    checks/    pure DataFrame -> DataFrame
    run        the checks over an export: findings, summary, measures
    report     one HTML page
    session    where Spark runs, and on which Java

Importing this package imports neither Spark nor Arrow; its modules do.
"""

__all__: list[str] = []
