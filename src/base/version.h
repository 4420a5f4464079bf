/* version.h - the version of cloister. */
#ifndef CLOISTER_VERSION_H
#define CLOISTER_VERSION_H
#define CLOISTER_VERSION "0.1.0"
#endif
