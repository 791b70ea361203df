"""What an admission controller is made of: reviews, rules, answers, outcomes, edits."""
