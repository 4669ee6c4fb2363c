// The version of the product, the same for all of its programs.
#ifndef BASE_VERSION_H
#define BASE_VERSION_H

#define BASE_PRODUCT_VERSION "0.1.0" // of its series 0.1

#endif
