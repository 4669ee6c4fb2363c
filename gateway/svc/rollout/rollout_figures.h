// What /metrics says of single rollouts and tasks. The control thread, which owns them, copies a
// few numbers of each at its ticks; workers write them as text. A rollout that is over is in it no
// more, and of very many only the newest are: labels are what a store of metrics pays for.
//
// The one lock inside is held for a copy or for writing a page.
#ifndef GW_ROLLOUT_FIGURES_H
#define GW_ROLLOUT_FIGURES_H

#include "base/status.h"

#define GW_FIGURES_ROLLOUTS_MAX 64 // open ones in /metrics, the newest
#define GW_FIGURES_TASKS_MAX    128

struct gw_actor;
struct gw_core;
struct gw_rollout_figures;

BASE_NODISCARD enum base_status gw_rollout_figures_new(struct gw_rollout_figures **out);
void gw_rollout_figures_free(struct gw_rollout_figures *figures); // accepts NULL
// Looks again, at most once a second. Control thread.
void gw_rollout_figures_step(struct gw_core *core);

// One line, or several, of the text format.
typedef void (*gw_figures_text_fn)(void *ctx, const char *text);
// What `actor` may see; NULL: everything. Any thread.
void gw_rollout_figures_write(struct gw_core *core, const struct gw_actor *actor,
                              gw_figures_text_fn add, void *ctx);

#endif
