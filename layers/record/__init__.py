"""What a run writes down as it goes, and where: journal, answers, results folder, lock, machine."""
