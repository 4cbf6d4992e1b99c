"""Lexicon of the clinic world: metabolism, blood, gut, kidneys."""

from __future__ import annotations

from typing import Final

from cloister.data.worlds.clinic.condition import Condition, condition

__all__ = ["METABOLISM_AND_GUT"]

METABOLISM_AND_GUT: Final[tuple[Condition, ...]] = (
    condition(
        "type 2 diabetes", 4, "endocrinology", ages=(35, 80), heritable=True,
        names="type 2 diabetes mellitus; T2DM; non-insulin-dependent diabetes; diabetes type 2",
        lay="sugar disease; high blood sugar; adult-onset diabetes",
        symptoms="thirst; passing water often; blurred vision; tingling in the feet; "
        "slow-healing cuts",
        signs="reduced vibration sense at both ankles; intact monofilament sensation; healthy feet "
        "without ulcers",
        drugs="metformin 500 mg twice daily; gliclazide 80 mg twice daily; sitagliptin 100 mg once "
        "daily; empagliflozin 10 mg once daily; insulin glargine 18 units at night",
        tests="HbA1c 49-92 mmol/mol; fasting glucose 7.1-14.6 mmol/l; urine albumin ratio 2-38 "
        "mg/mmol",
        procedures="retinal screening; foot check; dietitian review; structured diabetes course",
        advice="check the feet every evening; test sugar before breakfast; leave out sweet drinks; "
        "carry glucose tablets",
        related="obesity; hypertension; chronic kidney disease; high cholesterol; "
        "peripheral arterial disease",
        excludes="type 1 diabetes",
    ),
    condition(
        "type 1 diabetes", 62, "endocrinology", ages=(4, 30), heritable=True,
        names="type 1 diabetes mellitus; T1DM; insulin-dependent diabetes; juvenile-onset diabetes",
        lay="childhood diabetes; insulin diabetes",
        symptoms="night-time hypos; shakiness before meals; thirst; weight loss; sweating at night",
        signs="lumpy injection sites on the abdomen; clear sensor site; no ketotic breath",
        drugs="insulin aspart with meals; insulin degludec once daily; insulin pump therapy",
        tests="HbA1c 52-98 mmol/mol; time in range 74-38 %; ketones 0.1-1.6 mmol/l",
        procedures="retinal screening; insulin pump review; carbohydrate counting course",
        advice="rotate injection sites; never skip the basal insulin; test for ketones when unwell",
        related="coeliac disease; hypothyroidism; type 2 diabetes; hyperthyroidism",
        excludes="type 2 diabetes; obesity",
    ),
    condition(
        "obesity", 14, "endocrinology", ages=(18, 70), heritable=True,
        names="raised body mass index; adiposity; morbid obesity",
        lay="being overweight; weight problem",
        symptoms="weight gain; breathlessness on hills; sore knees; snoring; rubbing of the thighs",
        signs="central fat distribution; skin folds clean and dry; acanthosis at the neck",
        drugs="orlistat 120 mg with meals; semaglutide injection once weekly|teratogen; "
        "meal replacement programme",
        tests="body mass index 31-46; waist 102-141 cm",
        procedures="dietitian referral; exercise on prescription; bariatric surgery assessment",
        advice="keep a food diary; cook at home more often; swim twice a week; eat slowly",
        related="type 2 diabetes; sleep apnoea; hypertension; osteoarthritis",
    ),
    condition(
        "hypothyroidism", 16, "endocrinology", ages=(25, 80), heritable=True,
        names="underactive thyroid gland; Hashimoto thyroiditis; myxoedema",
        lay="slow thyroid; underactive thyroid",
        symptoms="feeling cold; weight gain; dry skin; sluggishness; hair thinning; low mood",
        signs="slow relaxing ankle reflexes; puffy face; small firm goitre",
        drugs="levothyroxine 75 micrograms once daily; levothyroxine 100 micrograms once daily; "
        "levothyroxine 50 micrograms once daily",
        tests="TSH 5.2-28.4 mU/l; free T4 11.8-6.1 pmol/l",
        procedures="thyroid antibody test; thyroid ultrasound",
        advice="take the tablet on an empty stomach; keep it apart from iron and calcium",
        related="type 1 diabetes; depression; high cholesterol; coeliac disease",
        excludes="hyperthyroidism",
    ),
    condition(
        "hyperthyroidism", 70, "endocrinology", ages=(22, 70), heritable=True,
        names="thyrotoxicosis; Graves disease; overactive thyroid gland",
        lay="fast thyroid; overactive thyroid",
        symptoms="racing heart; heat intolerance; weight loss despite good appetite; "
        "trembling hands; gritty eyes",
        signs="fine tremor of outstretched hands; lid lag; smooth goitre with bruit",
        drugs="carbimazole 20 mg once daily|teratogen; propylthiouracil 100 mg twice daily; "
        "propranolol 40 mg three times daily|beta_blocker",
        tests="free T3 7.4-19.8 pmol/l; TSH 0.20-0.01 mU/l",
        procedures="thyroid uptake scan; radioiodine treatment; thyroid eye clinic visit",
        advice="report a sore throat at once; use artificial tears; stop smoking",
        related="atrial fibrillation; osteoporosis; anxiety disorder",
        excludes="hypothyroidism",
    ),
    condition(
        "gout", 38, "rheumatology", ages=(38, 82), heritable=True,
        names="gouty arthritis; podagra; urate arthropathy",
        lay="uric acid attacks; gouty toe",
        symptoms="sudden pain in the big toe; red swollen joint; a foot that cannot bear a sheet; "
        "swollen ankle overnight",
        signs="tophi on the ear rim; hot first toe joint; tender midfoot",
        drugs="allopurinol 300 mg once daily; febuxostat 80 mg once daily; colchicine 500 "
        "micrograms "
        "twice daily",
        tests="uric acid 410-640 umol/l; creatinine 82-128 umol/l",
        procedures="joint aspiration; foot X-ray; dual-energy CT scan",
        advice="drink two litres of water a day; cut out beer; go easy on shellfish and offal",
        related="chronic kidney disease; hypertension; obesity; kidney stones",
    ),
    condition(
        "iron deficiency anaemia", 24, "gastroenterology", ages=(14, 85),
        names="iron deficiency; microcytic anaemia; low ferritin",
        lay="thin blood; lack of iron",
        symptoms="tiredness; pale skin; breathlessness on effort; brittle nails; craving for ice",
        signs="pale conjunctivae; spoon-shaped nails; angular stomatitis",
        drugs="ferrous sulfate 200 mg once daily; ferrous fumarate 210 mg once daily; iron "
        "infusion",
        tests="haemoglobin 114-78 g/l; ferritin 13-3 ug/l",
        procedures="gastroscopy; coeliac serology; stool blood test",
        advice="take iron with orange juice; eat lentils and red meat; expect dark stools",
        related="coeliac disease; menorrhagia; colorectal cancer; haemorrhoids",
    ),
    condition(
        "reflux disease", 12, "gastroenterology", ages=(20, 82),
        names="gastro-oesophageal reflux disease; GORD; reflux oesophagitis; acid reflux",
        lay="heartburn; acid stomach",
        symptoms="burning behind the breastbone; sour taste; night cough; belching; "
        "difficulty swallowing bread",
        signs="soft abdomen; mild epigastric tenderness; no masses felt",
        drugs="omeprazole 20 mg before breakfast; lansoprazole 30 mg once daily; sodium alginate "
        "after meals; famotidine 20 mg at night",
        tests="Helicobacter breath value 2-9 per mille",
        procedures="gastroscopy; Helicobacter stool test; oesophageal pH study",
        advice="raise the head of the bed; avoid late meals; cut down on coffee",
        related="irritable bowel syndrome; obesity; asthma; gallstones", avoid="nsaid",
    ),
    condition(
        "irritable bowel syndrome", 28, "gastroenterology", ages=(16, 60),
        names="IBS; functional bowel disorder; spastic colon",
        lay="nervous gut; irritable gut",
        symptoms="bloating; cramps eased by going to the toilet; loose stools in the morning; "
        "alternating constipation and diarrhoea; rumbling belly",
        signs="mild tenderness in the left iliac fossa; soft belly without guarding",
        drugs="mebeverine 135 mg three times daily; peppermint oil capsules; loperamide 2 mg as "
        "needed; ispaghula husk sachets",
        tests="faecal calprotectin 18-46 ug/g",
        procedures="coeliac serology; low FODMAP diet trial; gut-directed hypnotherapy",
        advice="keep a symptom diary; eat at regular times; cut back on chewing gum",
        related="anxiety disorder; reflux disease; coeliac disease; Crohn's disease",
    ),
    condition(
        "diverticular disease", 48, "gastroenterology", ages=(45, 88),
        names="diverticulosis; sigmoid diverticula; diverticulitis",
        lay="pouches in the bowel; bowel pockets",
        symptoms="pain low on the left side; constipation; bright blood in the stool; fever with "
        "belly pain",
        signs="tender left iliac fossa; palpable descending colon",
        drugs="ispaghula husk sachets; cefalexin 500 mg three times daily during flares; "
        "paracetamol 1 g up to four times daily",
        tests="CRP 8-118 mg/l; white cells 7.2-16.4 per nl",
        procedures="colonoscopy; CT scan of the abdomen; sigmoid resection",
        advice="eat more fibre; drink enough water; come back with fever or bleeding",
        related="irritable bowel syndrome; colorectal cancer; haemorrhoids",
        avoid="nsaid; opioid",
    ),
    condition(
        "gallstones", 49, "gastroenterology", ages=(25, 82), heritable=True,
        names="cholelithiasis; biliary colic; cholecystolithiasis",
        lay="stones in the gall bladder; gall bladder attacks",
        symptoms="pain under the right ribs after fatty food; nausea; pain in the right shoulder; "
        "pale stools",
        signs="positive Murphy sign; no jaundice; tender right upper quadrant",
        drugs="hyoscine butylbromide 10 mg as needed; ursodeoxycholic acid 500 mg twice daily",
        tests="bilirubin 14-62 umol/l; gamma-GT 48-320 U/l",
        procedures="abdominal ultrasound; laparoscopic cholecystectomy; bile duct imaging",
        advice="avoid fried food; come at once if the eyes turn yellow",
        related="reflux disease; obesity; diverticular disease",
    ),
    condition(
        "coeliac disease", 61, "gastroenterology", ages=(3, 60), heritable=True, graded=False,
        names="gluten enteropathy; coeliac sprue; gluten-sensitive enteropathy",
        lay="gluten allergy; wheat intolerance",
        symptoms="bloating; loose pale stools; tiredness; mouth ulcers; poor weight gain",
        signs="pale skin; mild abdominal distension; aphthous ulcers",
        drugs="strict gluten-free diet; folic acid 5 mg once daily; vitamin D once daily",
        tests="tissue transglutaminase antibodies 18-190 U/ml; ferritin 24-7 ug/l",
        procedures="duodenal biopsy; bone density scan; dietitian review",
        advice="read every label; keep a separate toaster; ask about sauces when eating out",
        related="iron deficiency anaemia; type 1 diabetes; irritable bowel syndrome",
    ),
    condition(
        "ulcerative colitis", 66, "gastroenterology", ages=(16, 60), heritable=True,
        names="UC; inflammatory bowel disease; left-sided colitis",
        lay="inflamed large bowel; bleeding bowel",
        symptoms="bloody diarrhoea; urgency; cramps before stools; passing mucus; "
        "waking at night for the toilet",
        signs="tender left colon; pale mucous membranes; no perianal disease",
        drugs="mesalazine 1.2 g twice daily; azathioprine 100 mg once daily; vedolizumab infusion "
        "every eight weeks",
        tests="faecal calprotectin 220-1800 ug/g; CRP 4-64 mg/l",
        procedures="colonoscopy with biopsies; flexible sigmoidoscopy; colectomy discussion",
        advice="do not stop treatment when well; report more than six stools a day",
        related="Crohn's disease; colorectal cancer; iron deficiency anaemia",
        excludes="Crohn's disease", avoid="nsaid",
    ),
    condition(
        "Crohn's disease", 67, "gastroenterology", ages=(14, 55), heritable=True,
        names="regional enteritis; terminal ileitis; ileal Crohn's disease",
        lay="chronic gut inflammation; inflamed small bowel",
        symptoms="cramps after meals; persistent diarrhoea; weight loss; anal soreness; mouth "
        "ulcers",
        signs="mass in the right iliac fossa; perianal skin tags; mild abdominal tenderness",
        drugs="azathioprine 100 mg once daily; adalimumab injection every two weeks; infliximab "
        "infusion every eight weeks",
        tests="CRP 6-88 mg/l; faecal calprotectin 260-2100 ug/g; vitamin B12 280-120 ng/l",
        procedures="MRI of the small bowel; ileocolonoscopy; ileal resection",
        advice="stop smoking, it worsens the disease; keep vaccinations up to date",
        related="ulcerative colitis; irritable bowel syndrome; iron deficiency anaemia",
        excludes="ulcerative colitis", avoid="nsaid",
    ),
    condition(
        "colorectal cancer", 71, "oncology", ages=(50, 88), heritable=True, graded=False,
        names="bowel carcinoma; sigmoid adenocarcinoma; rectal carcinoma",
        lay="bowel cancer; tumour of the bowel",
        symptoms="change of bowel habit; blood mixed with stool; weight loss; feeling of "
        "incomplete "
        "emptying",
        signs="healthy stoma in the left abdomen; midline scar; no enlarged liver",
        drugs="capecitabine in three-week cycles|teratogen; oxaliplatin infusion|teratogen; "
        "loperamide 2 mg as needed",
        tests="CEA 3-48 ug/l; haemoglobin 132-96 g/l",
        procedures="colonoscopy; anterior resection; CT staging scan; liver MRI",
        advice="report tingling fingers; attend each follow-up scan; walk daily between cycles",
        related="ulcerative colitis; iron deficiency anaemia; diverticular disease",
    ),
    condition(
        "haemorrhoids", 72, "gastroenterology", chronic=False, ages=(22, 80),
        names="piles; internal haemorrhoids; prolapsed haemorrhoids",
        lay="piles; lumps at the back passage",
        symptoms="fresh blood on the paper; anal itching; a lump on straining; discomfort when "
        "sitting",
        signs="small external skin tag; grade two haemorrhoids on proctoscopy",
        drugs="lidocaine ointment after each motion; macrogol sachets once daily",
        procedures="proctoscopy; rubber band ligation",
        advice="do not strain; eat more fibre; take warm sitz baths",
        related="diverticular disease; colorectal cancer; pregnancy",
    ),
    condition(
        "gastroenteritis", 19, "infections", chronic=False, ages=(0, 95),
        names="acute gastroenteritis; viral gastroenteritis; infectious diarrhoea",
        lay="stomach bug; tummy bug; food poisoning",
        symptoms="vomiting; watery diarrhoea; stomach cramps; low fever; poor fluid intake",
        signs="soft abdomen with active bowel sounds; moist tongue; normal skin turgor",
        drugs="oral rehydration solution; ondansetron 4 mg once|adult; zinc syrup|child",
        tests="temperature 37.2-38.8 degrees",
        procedures="stool culture; urea and electrolytes",
        advice="take small sips often; wash hands after every toilet visit; stay home two days "
        "after the last loose stool",
        related="irritable bowel syndrome; appendicitis",
    ),
    condition(
        "appendicitis", 84, "gastroenterology", chronic=False, ages=(6, 55), graded=False,
        names="acute appendicitis; perforated appendix; suspected appendicitis",
        lay="burst appendix; inflamed appendix",
        symptoms="pain moving to the right lower belly; loss of appetite; pain on coughing; nausea",
        signs="guarding in the right iliac fossa; rebound tenderness; positive Rovsing sign",
        drugs="paracetamol 1 g up to four times daily|adult; "
        "paracetamol suspension by weight|child",
        tests="white cells 11.8-19.4 per nl; CRP 24-160 mg/l",
        procedures="laparoscopic appendicectomy; abdominal ultrasound",
        advice="keep the wound dry; no sport for four weeks",
        related="gastroenteritis; Crohn's disease",
    ),
    condition(
        "chronic kidney disease", 23, "nephrology", ages=(45, 90),
        names="CKD; chronic renal impairment; CKD stage 3; renal insufficiency",
        lay="weak kidneys; failing kidneys",
        symptoms="puffy eyelids; itching; getting up at night to pass water; metallic taste; "
        "poor appetite",
        signs="mild ankle oedema; no renal bruit; pale skin with scratch marks",
        drugs="candesartan 8 mg once daily|teratogen; sodium bicarbonate 500 mg three times daily; "
        "alfacalcidol 0.25 micrograms once daily; dapagliflozin 10 mg once daily",
        tests="eGFR 57-18 ml/min; creatinine 108-310 umol/l; potassium 4.4-5.8 mmol/l",
        procedures="renal ultrasound; nephrology referral; dialysis planning visit",
        advice="avoid anti-inflammatory tablets; drink steadily through the day; keep blood "
        "pressure below target",
        related="hypertension; type 2 diabetes; heart failure; gout",
        avoid="nsaid",
    ),
    condition(
        "kidney stones", 50, "urology", chronic=False, ages=(20, 75),
        names="renal colic; nephrolithiasis; ureteric calculus",
        lay="stone attack; stones in the kidney",
        symptoms="waves of flank pain; blood in the urine; pain shooting to the groin; vomiting "
        "with pain",
        signs="tender right renal angle; restlessness with pain; soft abdomen",
        drugs="diclofenac 75 mg injection|nsaid; tamsulosin 400 micrograms once daily; "
        "metamizole 1 g as needed",
        tests="stone size 3-11 mm; urine red cells 40-250 per ul",
        procedures="low-dose CT of the kidneys; shock wave lithotripsy; ureteroscopy",
        advice="drink three litres a day; pass urine through a strainer; cut down on spinach and "
        "rhubarb",
        related="gout; urinary tract infection; chronic kidney disease",
    ),
)  # fmt: skip
