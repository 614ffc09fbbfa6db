"""Serves a model file on loopback with llama.cpp's own server: serve.py MODEL PORT THREADS"""

import sys
import time

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.hostnames = ["127.0.0.1"]
params.port = int(sys.argv[2])
params.cpuparams.n_threads = int(sys.argv[3])
params.n_ctx = 8192
params.n_parallel = 1
params.use_jinja = True
params.model_alias = ["local"]
# The likeliest word each time: a small model wanders otherwise.
params.sampling.temp = 0.0
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
while True:
    time.sleep(3600)
