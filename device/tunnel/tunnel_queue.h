// Records in: the open batch of a class, and closing it into the store.
#ifndef DEV_TUNNEL_QUEUE_H
#define DEV_TUNNEL_QUEUE_H

#include "tunnel/tunnel_class.h"

#define TUNNEL_TEXT_SLACK 1024 // uploads of an open batch, and of the second half of a split

bool tunnel_is_due(const struct dev_tunnel *tunnel, const struct tunnel_class *class,
                   uint64_t now_us, uint64_t *out_when_us);
void tunnel_close_due(struct dev_tunnel *tunnel, uint64_t now_us);
// Closes the open batch, and places what was dropped. BUSY, FULL, IO: it stays open. `large`: a
// record that is too large for an open batch becomes one of its own, when none is open; or NULL.
BASE_NODISCARD enum base_status tunnel_close(struct dev_tunnel *tunnel, struct tunnel_class *class,
                                             uint64_t now_us,
                                             const struct wire_upload_record *large);
// Promises the store that batches below `end`, and up to a window beyond send_next, may be sent.
BASE_NODISCARD enum base_status tunnel_promise(struct dev_tunnel *tunnel,
                                               struct tunnel_class *class, uint64_t now_us,
                                               uint64_t end);
bool tunnel_is_stored(const struct dev_tunnel *tunnel, uint64_t mark);
void tunnel_append(struct dev_tunnel *tunnel, struct tunnel_class *class, uint64_t now_us,
                   const struct wire_upload_record *record);
bool tunnel_fits(const struct dev_tunnel *tunnel, const struct tunnel_class *class,
                 const struct wire_upload_record *record);

#endif
