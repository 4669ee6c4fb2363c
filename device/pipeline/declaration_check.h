// Is what versions declare something a phone can afford? Asked where versions are published
// (`walle task build`, the gateway) before any device sees it: patterns must parse, and their
// certificate must stay within the engine's bounds. And asked of all the versions a device may hold
// at once, before a rollout begins: what a device would have to leave out (pipeline.h) is refused
// where somebody can still choose.
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

struct dev_trigger_certificate;
// What one event may cost a device that holds this version alone; all 0 without triggers. As above,
// but that nothing is too much.
BASE_NODISCARD enum base_status dev_declaration_certify(const struct wire_declaration *declaration,
                                                        const struct base_alloc_port *memory,
                                                        struct dev_trigger_certificate *out);

// ---- Several versions at once

struct dev_declared_task {
    struct base_str name;
    struct base_str declaration; // bytes, not empty
};

struct dev_declaration_cost {
    uint32_t tasks;
    uint32_t patterns;
    uint64_t declaration_bytes;
    uint64_t work;          // steps of one event, at most, for any history
    uint64_t trigger_bytes; // compiled patterns and their state, on any device
    uint64_t scratch_bytes; // while they are compiled
};

// What all of them cost a device that holds them at once, be it more than a device has: one
// certificate over all their patterns, or, of more than DEV_PIPELINE_TASKS_MAX tasks (which no
// device takes), the sum of one each. INVALID, TOO_LARGE: a declaration or a pattern is wrong,
// `error` names the task; NOMEM.
BASE_NODISCARD enum base_status dev_declaration_cost(const struct dev_declared_task *tasks,
                                                     uint32_t count,
                                                     const struct base_alloc_port *memory,
                                                     struct dev_declaration_cost *out,
                                                     struct base_error *error);
// OK, or LIMIT: the first bound that is crossed, with both numbers in `error`.
BASE_NODISCARD enum base_status dev_declaration_afford(const struct dev_declaration_cost *cost,
                                                       struct base_error *error);
// Bytes that a device holds for the patterns of this certificate, with any secret: compiled, their
// state, and whose each is.
uint64_t dev_declaration_trigger_bytes(const struct dev_trigger_certificate *certificate);
// How much of the budget that is, by its scarcest part, in millionths: to compare versions by.
uint64_t dev_declaration_share_ppm(const struct dev_declaration_cost *cost);

#endif
