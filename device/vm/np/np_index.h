// walle.np: indexing, as other files of the module use it.
#ifndef DEV_NP_INDEX_H
#define DEV_NP_INDEX_H

#include "vm/np/np.h"

// The array type's slot: MP_OBJ_SENTINEL as the value reads. Raises IndexError, ValueError.
mp_obj_t dev_np_subscr(mp_obj_t self, mp_obj_t index, mp_obj_t value);

// Writes for each dimension an int64 array of where the elements that are not zero are, in order,
// and gives how many they are. Without dimensions nothing is written.
uint64_t dev_np_places(const struct np_array *values, const struct np_array **out_places);

#endif
