"""DiLoCo between sites with slow links: what an outer step sends, takes and does to the loss."""
