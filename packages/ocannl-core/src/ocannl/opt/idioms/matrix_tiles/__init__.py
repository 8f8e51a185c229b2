"""Products of bfloat16 matrices by tiles, for processors with matrix instructions."""
