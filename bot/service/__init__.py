"""The webhook service: deliveries in, jobs out, each done once.

`app` answers GitHub, `store` keeps deliveries and jobs in one SQLite file, `worker` does the jobs
under leases, `dispatch` says how each kind is done, `chores` does what nobody asked for: ticks,
redelivery, forgetting. `signature` and `limits` are pure.
"""
