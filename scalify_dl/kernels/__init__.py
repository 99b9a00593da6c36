"""What kernels compute: their text run on numbers and on terms, and compared with what is stated."""
