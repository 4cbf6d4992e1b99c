"""The demo: five made-up clinics at work, step by step, and then in the console.

``clinic_federation`` makes them and runs their services; ``clinic_users`` are the people who search
and click; ``held_out`` measures rankers by queries that nobody clicked on. The steps are one file a
subject; ``story`` has their order.
"""
