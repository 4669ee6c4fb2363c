// Handing out a block piece by piece. Called where owners of several arrays are made; any thread,
// no state of its own.
#include "base/carve.h"

#include "base/check.h"
#include "base/ckd.h"

void *base_carve(struct base_carver *carver, size_t count, size_t size)
{
    base_assert((carver->alignment & (carver->alignment - 1)) == 0);
    size_t mask = carver->alignment - 1;
    size_t bytes = 0;
    carver->full = carver->full || !base_ckd_mul(count, size, &bytes) ||
                   !base_ckd_add(bytes, mask, &bytes) ||
                   (bytes & ~mask) > carver->capacity - carver->used;
    if (carver->full) {
        return NULL;
    }
    void *piece = carver->block != NULL ? (uint8_t *)carver->block + carver->used : NULL;
    carver->used += bytes & ~mask;
    return piece;
}
