// Offers that count keep to their rollout's cap and rate: read from what the
// gateway sent to devices that show who they are, and from the reports that it
// took. Lenient: a device that answered, or had its time, is under way no more,
// and of what the gateway knew before it was killed it may have forgotten the
// latest.
#ifndef MODEL_PACE_H
#define MODEL_PACE_H

#include "model_world.h"

// A device asked or reported, and this was the answer.
void model_pace_heard(void *world, const struct model_device *device,
                      const struct gw_exchange *exchange);
// The gateway was killed or went back to a copy: what there is is looked at no
// more.
void model_pace_forget(struct model_world *world);

#endif
