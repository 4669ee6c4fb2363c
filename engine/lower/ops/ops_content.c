// Operators whose output shape depends on contents.
//
// Handlers are called by lowering, node by node, on the planning thread.
#include "lower/op_tables.h"

const struct eng_op_table eng_ops_content = {NULL, 0};
