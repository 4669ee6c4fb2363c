// What tests may do with the stub core besides what any core can.
#ifndef STUB_CORE_H
#define STUB_CORE_H

#include "svc/core.h"

// Answers the request for /test/held or /api/v1/held that is waiting; false: there is none.
bool stub_core_let_go(struct gw_worker *worker);

#endif
