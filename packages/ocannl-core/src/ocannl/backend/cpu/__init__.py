"""Support for backends whose code runs on the CPU of this process: devices, queues, threads, entry points."""
