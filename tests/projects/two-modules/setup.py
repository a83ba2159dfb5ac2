from setuptools import Extension, setup

names = ("_sum", "_twice")
setup(ext_modules=[Extension(f"acme.ledger.{name}", [f"src/acme/ledger/{name}.cpp"]) for name in names])
