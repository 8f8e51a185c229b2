"""Softmax and attention: matching, online softmax (Milakov and Gimelshein 2018), recomputation (Dao et al. 2022)."""
