/* control.h - names each security control, so that a test can switch it off.
 *
 * In every build but the mutant one CONTROL_ON() is the constant 1: nothing at run time can weaken
 * the sandbox.  The mutant build (make mutant, never installed) reads CLOISTER_OFF, a
 * comma-separated list.  It shows that for each control some escape probe fails without it. */
#ifndef CLOISTER_CONTROL_H
#define CLOISTER_CONTROL_H

#ifdef CLOISTER_MUTANT
int control_is_on(const char *name);
#define CONTROL_ON(name) control_is_on(name)
#else
#define CONTROL_ON(name) 1
#endif
#endif
