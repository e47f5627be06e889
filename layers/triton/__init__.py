"""The model server: its environment, its life from start to end, its client, its configuration.

environment   NVIDIA Triton from a wheel, in a cached environment of its own
server        a Deployment: one server of ours in its sandbox, pinned, watched, ended for good
starting      what that server is started with
loading       which models it is told to load
confinement   what it may see of its stack
endpoint      the unix socket that it listens on, held on to whatever its name leads to
guard         the small program that owns that server, so that nothing outlives us; its log's relay
remote        a user's own server, by address, only read
client        raw inference and model control over gRPC
processes     backend processes, their CPU time, shared memory
serverlog     reasons from the server's log
pbtxt         config.pbtxt, edited in place
"""
