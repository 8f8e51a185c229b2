"""From what to compute to how: faithful, unoptimized loops."""
