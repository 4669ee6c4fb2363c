// Coordinates that indices of a gather or scatter were computed from: checked by either backend
// before anything moves.
#ifndef ENG_BACKEND_COORDS_H
#define ENG_BACKEND_COORDS_H

#include "backend/backend.h"

// INVALID with a text that names the row, the coordinate, its value and its range. Nothing to check
// when depth is 0.
BASE_NODISCARD enum base_status eng_coords_check(const struct eng_coords *coords,
                                                 const struct eng_step *step,
                                                 const struct eng_run *run);

#endif
