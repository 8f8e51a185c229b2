"""Runtime support for native CPU backends: devices, queues, threads and entry points."""
