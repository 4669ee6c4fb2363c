// The functions of UNARY and BINARY commands, of one number each (program.h says what they are).
#ifndef ENG_PROGRAM_SCALAR_H
#define ENG_PROGRAM_SCALAR_H

#include "program/program.h"

double eng_scalar_unary(enum eng_unary_fn fn, double value, double alpha, double beta);
double eng_scalar_binary(enum eng_binary_fn fn, double left, double right);

#endif
