/* template.h - the names of templates of virtual machines, in the data folder. */
#ifndef CLOISTER_TEMPLATE_H
#define CLOISTER_TEMPLATE_H

#define TEMPLATE_FOLDER "vm"            /* with the initramfs files */
#define TEMPLATE_PREFIX "template-"     /* and the hash of what it was made with */
#define TEMPLATE_PART "part-" TEMPLATE_PREFIX   /* being made */
#endif
