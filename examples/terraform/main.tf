# An NLB and an ALB with target groups of type ip for Headgate, and the IAM role that it needs.
# The same as ../cloudformation/headgate.yaml. Not validated: terraform never ran on this file.

terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.30"
    }
  }
}

variable "name" {
  description = "The prefix of all names. Target groups are named NAME-nlb and NAME-alb."
  type        = string
}

variable "vpc_id" {
  description = "The VPC of the cluster, whose pods have VPC IPs."
  type        = string
}

variable "public_subnet_ids" {
  description = "Subnets of the load balancers, in each zone of the nodes."
  type        = list(string)
}

variable "cluster_security_group_id" {
  description = "The security group of the pods. With managed node groups it is the cluster security group."
  type        = string
}

variable "cluster_name" {
  description = "The EKS cluster. It needs the add-on eks-pod-identity-agent."
  type        = string
}

variable "target_port" {
  description = "The port that the pods listen on."
  type        = number
  default     = 8080
}

variable "headgate_namespace" {
  description = "The namespace of the Helm release."
  type        = string
  default     = "headgate"
}

variable "headgate_service_account" {
  description = "The ServiceAccount of the Helm release."
  type        = string
  default     = "headgate"
}

data "aws_partition" "current" {}

resource "aws_security_group" "load_balancers" {
  name        = "${var.name}-load-balancers"
  description = "Clients of the load balancers"
  vpc_id      = var.vpc_id

  ingress {
    description = "HTTP"
    protocol    = "tcp"
    from_port   = 80
    to_port     = 80
    cidr_blocks = ["0.0.0.0/0"]
  }

  egress {
    description     = "Load balancers to pods"
    protocol        = "tcp"
    from_port       = var.target_port
    to_port         = var.target_port
    security_groups = [var.cluster_security_group_id]
  }
}

# Headgate never changes a security group: this rule lets both load balancers reach the pods.
resource "aws_security_group_rule" "pods" {
  description              = "Load balancers to pods"
  type                     = "ingress"
  protocol                 = "tcp"
  from_port                = var.target_port
  to_port                  = var.target_port
  security_group_id        = var.cluster_security_group_id
  source_security_group_id = aws_security_group.load_balancers.id
}

locals {
  load_balancers = {
    nlb = { type = "network", protocol = "TCP" }
    alb = { type = "application", protocol = "HTTP" }
  }
}

resource "aws_lb" "this" {
  for_each           = local.load_balancers
  name               = "${var.name}-${each.key}"
  load_balancer_type = each.value.type
  subnets            = var.public_subnet_ids
  security_groups    = [aws_security_group.load_balancers.id]
}

resource "aws_lb_target_group" "this" {
  for_each = local.load_balancers
  # The name is what headgate.dev/target-groups refers to.
  name        = "${var.name}-${each.key}"
  vpc_id      = var.vpc_id
  target_type = "ip"
  protocol    = each.value.protocol
  port        = var.target_port

  health_check {
    protocol = "HTTP"
    path     = "/"
    interval = 10
  }

  tags = { "headgate.dev/managed" = "true" }
}

resource "aws_lb_listener" "this" {
  for_each          = local.load_balancers
  load_balancer_arn = aws_lb.this[each.key].arn
  protocol          = each.value.protocol
  port              = 80

  default_action {
    type             = "forward"
    target_group_arn = aws_lb_target_group.this[each.key].arn
  }
}

resource "aws_iam_role" "headgate" {
  name = "${var.name}-headgate"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "pods.eks.amazonaws.com" }
      Action    = ["sts:AssumeRole", "sts:TagSession"]
    }]
  })
}

# The same statements as deploy/iam/aws-tagged.json.
resource "aws_iam_role_policy" "headgate" {
  name = "headgate"
  role = aws_iam_role.headgate.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid    = "HeadgateReads"
        Effect = "Allow"
        Action = [
          "elasticloadbalancing:DescribeTargetGroups",
          "elasticloadbalancing:DescribeTargetGroupAttributes",
          "elasticloadbalancing:DescribeTargetHealth",
        ]
        Resource = "*"
      },
      {
        Sid       = "HeadgateMovesTargets"
        Effect    = "Allow"
        Action    = ["elasticloadbalancing:RegisterTargets", "elasticloadbalancing:DeregisterTargets"]
        Resource  = "arn:${data.aws_partition.current.partition}:elasticloadbalancing:*:*:targetgroup/*/*"
        Condition = { StringEquals = { "aws:ResourceTag/headgate.dev/managed" = "true" } }
      },
    ]
  })
}

resource "aws_eks_pod_identity_association" "headgate" {
  cluster_name    = var.cluster_name
  namespace       = var.headgate_namespace
  service_account = var.headgate_service_account
  role_arn        = aws_iam_role.headgate.arn
}

output "dns_names" {
  description = "Of the load balancers, by nlb and alb."
  value       = { for key, balancer in aws_lb.this : key => balancer.dns_name }
}

output "target_groups" {
  description = "For headgate.dev/target-groups."
  value       = [for group in aws_lb_target_group.this : group.name]
}

output "headgate_role_arn" {
  value = aws_iam_role.headgate.arn
}
