// Whom a stage is for, as a line of text.
#ifndef AUDIENCE_TEXT_H
#define AUDIENCE_TEXT_H

#include <jansson.h>
#include <stdio.h>

// `channel == "beta" && os in ["ios"]`: an expression as it was written, conditions as the tests
// that the targeting language has for them. Nothing where the stage is for the whole target.
void audience_text_print(FILE *file, const json_t *stage);

#endif
