// What a node of an operator may have: how many inputs, and which attributes, at which opset.
#ifndef ENG_LOWER_OP_FORMS_H
#define ENG_LOWER_OP_FORMS_H

#include "model/graph.h"

// INVALID, naming the node and what is too much, unless the node has no more inputs than its
// operator at the opset it is imported at, and only attributes that the operator has there. Nodes
// of operators without a form pass. Types and values are the handler's business.
BASE_NODISCARD enum base_status eng_op_form_check(const struct eng_node *node,
                                                  struct base_error *error);

// Whether there is a form of this operator: every row of the operator tables has one.
bool eng_op_form_known(const char *domain, const char *name);

#endif
