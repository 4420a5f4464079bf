variable "name" {
  description = "The name of the cluster, and the beginning of all other names."
  type        = string
  default     = "cloister"
}

variable "vpc_id" {
  description = "The network of the workers."
  type        = string
}

variable "image" {
  description = "The image of the workers: what `make image` makes, in a registry that the tasks reach."
  type        = string
}

variable "store_secret_arn" {
  description = "A secret of Secrets Manager whose value is CLOISTER_STORE: postgres://USER:PASSWORD@HOST/DATABASE."
  type        = string
}

variable "store_security_group_id" {
  description = "The security group of the Postgres, which gets a rule that lets the workers in. Null: no rule."
  type        = string
  default     = null
}

variable "bucket" {
  description = "The name of the bucket for contents of files."
  type        = string
}

variable "prefix" {
  description = "The folder in it."
  type        = string
  default     = "cloister"
}

variable "cpu" {
  description = "Processors of a worker, in 1/1024."
  type        = number
  default     = 2048
}

variable "memory" {
  description = "Memory of a worker, in MiB."
  type        = number
  default     = 4096
}

variable "log_days" {
  description = "How long the workers' own output is kept."
  type        = number
  default     = 30
}
