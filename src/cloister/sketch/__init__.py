"""Small summaries of term counts that parties may exchange: sketches, and noise on them."""
