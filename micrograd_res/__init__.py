"""A scalar autograd engine, and a tiny GPT on top of it whose residual connections can be dropped.

Read the files in this order; 1 to 4 are the heart.

 1 engine.py      a number that remembers how it was made
 2 functional.py  every operation of a GPT, defined in such numbers
 3 fused.py       the same operations, with derivatives by hand
 4 model.py       the GPT, and the block with its x_residual
 5 data.py        from a file of names to tokens
 6 optim.py       Adam
 7 train.py       the training loop
 8 sample.py      new names
 9 checkpoint.py  save, load, resume
10 probe.py       what to measure inside a network
11 plot.py        curves and bars, as text and as SVG
12 graph.py       a small graph of numbers as a picture
"""

__version__ = "0.1.0"
