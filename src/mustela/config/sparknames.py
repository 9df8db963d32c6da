"""Spark's property names in the environment, where upper case hides their capitals."""

from __future__ import annotations

from types import MappingProxyType

__all__ = ["spark_property"]

_MIXED_CASE = (
    "blockManager.port",
    "broadcast.blockSize",
    "driver.bindAddress",
    "driver.blockManager.port",
    "driver.defaultJavaOptions",
    "driver.extraClassPath",
    "driver.extraJavaOptions",
    "driver.extraLibraryPath",
    "driver.maxResultSize",
    "driver.memoryOverhead",
    "driver.memoryOverheadFactor",
    "dynamicAllocation.enabled",
    "dynamicAllocation.executorIdleTimeout",
    "dynamicAllocation.initialExecutors",
    "dynamicAllocation.maxExecutors",
    "dynamicAllocation.minExecutors",
    "dynamicAllocation.schedulerBacklogTimeout",
    "eventLog.compress",
    "eventLog.dir",
    "eventLog.enabled",
    "eventLog.rolling.enabled",
    "executor.defaultJavaOptions",
    "executor.extraClassPath",
    "executor.extraJavaOptions",
    "executor.extraLibraryPath",
    "executor.heartbeatInterval",
    "executor.memoryOverhead",
    "executor.memoryOverheadFactor",
    "extraListeners",
    "files.maxPartitionBytes",
    "io.encryption.keySizeBits",
    "jars.ivySettings",
    "kubernetes.authenticate.driver.serviceAccountName",
    "kubernetes.container.image.pullPolicy",
    "kubernetes.container.image.pullSecrets",
    "kubernetes.driver.podTemplateContainerName",
    "kubernetes.driver.podTemplateFile",
    "kubernetes.executor.podNamePrefix",
    "kubernetes.executor.podTemplateContainerName",
    "kubernetes.executor.podTemplateFile",
    "memory.offHeap.enabled",
    "memory.offHeap.size",
    "memory.storageFraction",
    "network.maxRemoteBlockSizeFetchToMem",
    "port.maxRetries",
    "python.worker.idleTimeoutSeconds",
    "rpc.askTimeout",
    "rpc.lookupTimeout",
    "rpc.message.maxSize",
    "scheduler.maxRegisteredResourcesWaitingTime",
    "scheduler.minRegisteredResourcesRatio",
    "serializer.objectStreamReset",
    "shuffle.io.maxRetries",
    "shuffle.io.retryWait",
    "shuffle.sort.bypassMergeThreshold",
    "sql.execution.arrow.maxRecordsPerBatch",
    "stage.maxConsecutiveAttempts",
    "storage.memoryMapThreshold",
    "submit.deployMode",
    "submit.pyFiles",
    "task.maxFailures",
    "task.reaper.killTimeout",
    "task.reaper.pollingInterval",
    "ui.retainedDeadExecutors",
    "ui.retainedJobs",
    "ui.retainedStages",
    "ui.retainedTasks",
    "ui.reverseProxy",
    "ui.showConsoleProgress",
    "yarn.maxAppAttempts",
    "yarn.stagingDir",
)

_BY_LOWER = MappingProxyType({name.lower(): name for name in _MIXED_CASE})


def spark_property(name: str) -> str:
    """Return a property's name with Spark's capitals, where it is written without them.

    Names that are not known stay as they are: in the environment a variable with small letters,
    ``MUSTELA__SPARK__my_ownProperty``, is taken as written.

    Args:
        name: The name without ``spark.`` before it.

    Example:
        >>> spark_property("driver.maxresultsize"), spark_property("master")
        ('driver.maxResultSize', 'master')
    """
    return _BY_LOWER.get(name.lower(), name)
