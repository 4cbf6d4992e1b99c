"""The online loop: pages shown to real users, their clicks, and rankers tried before they serve."""
