// Is what a version declares something a phone can afford? Asked where versions are published
// (`walle task build`, the gateway) before any device sees it: patterns must parse, and their
// certificate must stay within the engine's bounds.
#ifndef DEV_DECLARATION_CHECK_H
#define DEV_DECLARATION_CHECK_H

#include "base/error.h"
#include "base/ports.h"
#include "wire/declaration.h"

// `memory` is used during the call only. INVALID: a pattern is wrong; `error` names the trigger,
// the column and what is wrong. LIMIT: the triggers together cost more than DEV_TRIGGER_WORK_MAX
// steps an event, or more memory than a device gives them (pipeline.h). NOMEM.
BASE_NODISCARD enum base_status dev_declaration_check(const struct wire_declaration *declaration,
                                                      const struct base_alloc_port *memory,
                                                      struct base_error *error);

#endif
