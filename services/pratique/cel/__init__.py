"""CEL: the expressions of ``matchConditions`` and admission policies, with Kubernetes' own functions.

Expressions are parsed and type-checked by Google's C++ implementation, and evaluated here, because its runtime counts
no cost: ``docs/adr/0008-cel-cost.md``. Importing this package costs nothing; compiling the first expression does.
"""
