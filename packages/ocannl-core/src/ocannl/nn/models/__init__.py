"""Ready networks."""
