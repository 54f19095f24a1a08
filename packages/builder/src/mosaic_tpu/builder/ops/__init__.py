"""The ops, one file a dialect: each method emits one MLIR operation."""
