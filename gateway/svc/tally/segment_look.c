// What is seen of a stage's segments, where each is compared with the whole of control. Called by
// quarantine.c for every look of the control thread at an open stage. Pure: tally's counts in, the
// policy's form out. Segments that are held count no more, lifted ones are not looked at again;
// what both left is what the gate judges.
#include "svc/tally/segment_look.h"

uint64_t gw_segment_look(const struct gw_tally_segment *segments, uint32_t count,
                         const struct pol_held *held, const struct pol_held *lifted,
                         struct pol_slices *out)
{
    uint64_t failed = 0;
    out->held_count = held->count;
    out->count = count;
    out->failing_count = 0;
    out->completed = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct gw_tally_segment *segment = &segments[i];
        if (pol_held_has(held, segment->segment)) {
            continue;
        }
        out->completed += segment->completed;
        if (segment->failed > 0 && !pol_held_has(lifted, segment->segment)) {
            failed += segment->failed;
            out->failing[out->failing_count++] = (struct pol_slice){
                .name = segment->segment, .seen = {segment->completed, segment->failed}};
        }
    }
    return failed;
}

static uint64_t less(uint64_t from, uint64_t what)
{
    return from > what ? from - what : 0;
}

void gw_segment_discount(const struct gw_tally_segment *segments, uint32_t count,
                         const struct pol_held *held, struct pol_counts *counts)
{
    for (uint32_t i = 0; i < count; i++) {
        if (pol_held_has(held, segments[i].segment)) {
            counts->failed = less(counts->failed, segments[i].failed);
            counts->succeeded = less(counts->succeeded, segments[i].completed - segments[i].failed);
        }
    }
}
