"""Result files of load generators, read into one shape: vLLM, SGLang, AIPerf and GuideLLM.

`read.read_benchmark` reads a file, `measured.measured_step` says which decode step it measured.
"""
