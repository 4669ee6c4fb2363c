// Slices: which segments of the fleet are worse, with the false discovery rate under control.
//
// Called by the rollout machine and the simulator for the slices of an open stage; pure.
#include "policy/sequential.h"

// Whether slice counts as rejected when `wanted` are: its e-value reaches count / (wanted * alpha).
static bool reaches(double evidence, uint32_t count, uint32_t wanted, uint32_t alpha_ppm)
{
    return evidence * alpha_ppm * wanted >= 1e6 * count;
}

uint32_t pol_slices_reject(const double *evidence, uint32_t count, uint32_t alpha_ppm, bool *marked)
{
    uint32_t rejected = 0;
    for (uint32_t wanted = count <= POL_SLICES_MAX ? count : 0; wanted > 0 && rejected == 0;
         wanted--) {
        uint32_t found = 0;
        for (uint32_t i = 0; i < count; i++) {
            found += reaches(evidence[i], count, wanted, alpha_ppm);
        }
        rejected = found >= wanted ? wanted : 0;
    }
    uint32_t marks = 0;
    for (uint32_t i = 0; i < count; i++) {
        marked[i] = rejected > 0 && reaches(evidence[i], count, rejected, alpha_ppm);
        marks += marked[i];
    }
    return marks;
}
