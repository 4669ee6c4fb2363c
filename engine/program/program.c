// Texts and containers of programs. Called by lowering, the passes and tests, on the planning
// thread.
#include "program/program.h"

static const char *const atomic_texts[] = {
#define ENG_ATOMIC_TEXT(name, text) text,
    ENG_ATOMIC_MAP(ENG_ATOMIC_TEXT)
#undef ENG_ATOMIC_TEXT
};

const char *eng_atomic_text(enum eng_atomic op)
{
    return (unsigned)op < ENG_OP_COUNT ? atomic_texts[op] : "unknown";
}
