"""Training across clients: populations, rounds, FedAvg and its kin, centralised baselines."""
